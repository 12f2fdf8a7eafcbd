"""Common words of reports that are near to a word of anatomy but no slip of it; they are never corrected."""

NOT_MISSPELT = frozenset(
    """
    about above across acute adjacent after again against aged along also although among appear appearance appears area
    areas around artifact aspect aspects aware based because been before being below beneath benign between biopsy
    bipolar black blood blown board bolus border borders bordering bound breath brief bright broad build bulky bulge
    burden calcific calcified calcification cancer caliber calibration care cases cause cavity cavitary cells center
    central change changes channel chronic circle class clear clearly close cluster coarse coils collapse collected
    colour common compact compare compared complex conglomerate consider consistent contact contain contour contours
    contrast control could course cover covers crossing current cystic cysts dated decrease dense densities density
    depth detail detected development diameter different diffuse dilated direct disease display distal distant distinct
    dose double doubt down drain drop during early edge edges edema effect effusion either eleven emphysema enlarged
    enlargement enough entire equal error essential evaluate even event every evidence exact exam except exist extend
    extent fails false fatty feature features feed fever fibrotic field filled finding findings first fluid focal foci
    focus follow force form forms found fourth fracture free frequent fresh front full further general given gland gross
    ground group grown growth guide half hard have heal health healed heavy height held hernia high higher history hole
    hollow homogeneous image images impression include included increase indent index infarct inferior inflammation
    inhalation inner input inside interlobular intralobular lobular insert intact into invade invasion involve irregular isolated issue joint junction
    just known large larger largest later layer lead least legend length lesion lesions less level levels light like
    likely limit line linear lines link list little local located location locule long longer loops loss lost lower
    lowest lucent lumen lumens lytic main major malignant many mark marked masses massive match material matter maximum
    means measure measured measures median medical metal method middle might mild miliary minimal minor mixed mobile
    moderate month months more morphology most mostly motion mottled much multiple must narrow narrowed nature near
    nearly necrosis necrotic needle never next nodular nodule nodules none nonspecific noted number numerous oblique
    obscure obtain occlusion often older only opacity open opened order origin other others outer outline outside over
    oval pain paint panel parallel partly past patch patchy patent path patient pattern perhaps period peripheral phase
    piece place placed plain plane plaque plate plates point points poor portion position positive possible post
    predominant presence present pressure previous primary prior probable process produce prominent prone protocol
    proven proximal pulse quality quite radial random range rapid rare rate rather ratio reach reached reader really
    reason recent record reduce reduced region related relation remain report rest result reticular review rotate round
    rounded routine rows rule same scan scans scarring scattered score second section sections seem seen sepsis septa
    septal septum sequel sequela sequelae series severe several shadow shape shaped shaking sharp sheet shift short show
    showed shown shows side sided sides sign signal signs similar simple since single size sized sizes slice slices
    slight slightly slope small smaller smooth soft solid some source space spaces span spared speck spiculated spine
    splint split spot spots spread square stable staging stain standard state station status stenosis stent step still
    stone stones strand stranding streak stress strip strong structure structures study subtle such suggest surface
    surgery surgical survey suspect swelling system table taken tear tense test texture than that their them then there
    these they thick thickening thin third this those through time tiny tissue title toward trace track tract transition
    treat trend true tube tumor tumors tumoral twelve type under unit until upper usual value vague variable varied
    various vary very view views vision visit void volume wall walls washout wedge week weight well were what wheel when
    where which while white whole wide wider widened widespread width window within without work worse would wound year
    years younger zone zones
    """.split()
)
